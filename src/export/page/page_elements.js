/* An element below another one. Texts are only ever text. */
function add(parent, tag, text, name) {
	const element = document.createElement(tag);

	if (text !== undefined)
		element.textContent = text;
	if (name)
		element.className = name;
	parent.append(element);
	return element;
}

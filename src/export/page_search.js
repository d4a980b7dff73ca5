/*
 * The search of all pages. A text matches names that contain it, in any case of letters. `.*` stands for anything, `|` separates
 * alternatives, `^` and `$` are the begin and the end of the name, and `\` takes the next character as it is. No other character
 * has a meaning. The pieces between `.*` are found from left to right and never again, so no text can make a search hang.
 */
function name_test(text) {
	const alternatives = [];
	let a = null;

	const begin = () => alternatives.push(a = { pieces: [""], from_begin: false, to_end: false });
	begin();
	for (let i = 0; i < text.length; i++) {
		const c = text[i], next = text[i + 1];

		if (c === "|")
			begin();
		else if (c === "." && next === "*")
			a.pieces.push(""), i++;
		else if (c === "^" && a.pieces.length === 1 && !a.pieces[0])
			a.from_begin = true;
		else if (c === "$" && (next === undefined || next === "|"))
			a.to_end = true;
		else
			a.pieces[a.pieces.length - 1] += c === "\\" && next !== undefined ? text[++i].toLowerCase() : c.toLowerCase();
	}
	const matches = (name, { pieces, from_begin, to_end }) => {
		let at = 0;

		for (const [i, piece] of pieces.entries()) {
			const end = to_end && i === pieces.length - 1, begin = from_begin && !i;
			const found = end ? name.length - piece.length : begin ? 0 : name.indexOf(piece, at);

			if (found < at || (begin && found) || !name.startsWith(piece, found))
				return false;
			at = found + piece.length;
		}
		return true;
	};
	const used = alternatives.filter(({ pieces, from_begin, to_end }) => from_begin || to_end || pieces.some((piece) => piece));

	return (name) => used.some((each) => matches(name.toLowerCase(), each));
}

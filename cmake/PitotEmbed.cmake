# pitot_embed(target file…): compiles text files into a library, as `const char <name with _ for .>[]`, NUL-terminated.
# As a script (cmake -DINPUT= -DOUTPUT= -DNAME= -P): writes the C file of one.

if(CMAKE_SCRIPT_MODE_FILE)
	file(READ "${INPUT}" text)
	string(REPLACE "\\" "\\\\" text "${text}")
	string(REPLACE "\"" "\\\"" text "${text}")
	string(REPLACE "\n" "\\n\"\n\t\"" text "${text}")
	file(WRITE "${OUTPUT}" "extern const char ${NAME}[];\nconst char ${NAME}[] =\n\t\"${text}\";\n")
	return()
endif()

set(PITOT_EMBED_SCRIPT ${CMAKE_CURRENT_LIST_FILE})

function(pitot_embed target)
	foreach(input IN LISTS ARGN)
		get_filename_component(file ${input} NAME)
		string(REPLACE "." "_" name ${file})
		set(output ${CMAKE_CURRENT_BINARY_DIR}/embedded/${name}.c)
		add_custom_command(OUTPUT ${output}
			COMMAND ${CMAKE_COMMAND} -DINPUT=${PROJECT_SOURCE_DIR}/${input} -DOUTPUT=${output} -DNAME=${name}
				-P ${PITOT_EMBED_SCRIPT}
			DEPENDS ${input} ${PITOT_EMBED_SCRIPT} VERBATIM)
		target_sources(${target} PRIVATE ${output})
	endforeach()
endfunction()

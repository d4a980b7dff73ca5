# The BPF programs of CPU sampling: compiled with clang, embedded into the library, loaded with libbpf and libelf (static,
# where libelf can be). Optional: without clang, libbpf or libelf, pitot_bpf() leaves the eBPF way out.
# As a script (cmake -DINPUT= -DOUTPUT= -DNAME= -P): writes the C file that has a binary file's bytes.

if(CMAKE_SCRIPT_MODE_FILE)
	file(READ "${INPUT}" bytes HEX)
	string(LENGTH "${bytes}" digits)
	math(EXPR size "${digits} / 2")
	string(REGEX REPLACE "(..)" "0x\\1," bytes "${bytes}")
	string(REGEX REPLACE "(................................................................................)" "\\1\n\t"
		bytes "${bytes}")
	file(WRITE "${OUTPUT}" "extern const unsigned char ${NAME}[];\nextern const unsigned long ${NAME}_size;\n"
		"const unsigned long ${NAME}_size = ${size};\n"
		"_Alignas(16) const unsigned char ${NAME}[] = {\n\t${bytes}\n};\n")
	return()
endif()

include(CheckCSourceCompiles)

set(PITOT_BPF_SCRIPT ${CMAKE_CURRENT_LIST_FILE})
option(PITOT_BPF "Sample CPUs with eBPF, where clang, libbpf and libelf are there to build it" ON)

# Whether a program with libbpf and that libelf links. (A static libelf may need libraries that it does not name.)
function(pitot_bpf_links libelf result)
	set(CMAKE_REQUIRED_INCLUDES ${PITOT_BPF_INCLUDE})
	set(CMAKE_REQUIRED_LIBRARIES ${PITOT_BPF_LIBRARY} ${libelf} ${ZLIB_LIBRARY} ${ZSTD_LIBRARY})
	check_c_source_compiles("#include <bpf/libbpf.h>
		int main(void) { return bpf_object__load(bpf_object__open_mem(0, 0, 0)); }" ${result})
endfunction()

function(pitot_find_bpf)
	find_program(PITOT_BPF_CLANG NAMES clang clang-22 clang-21 clang-20 clang-19 clang-18 clang-17 clang-16 clang-15 clang-14)
	find_program(PITOT_BPF_STRIP NAMES llvm-strip llvm-strip-22 llvm-strip-21 llvm-strip-20 llvm-strip-19 llvm-strip-18
		llvm-strip-17 llvm-strip-16 llvm-strip-15 llvm-strip-14)
	find_path(PITOT_BPF_INCLUDE bpf/libbpf.h)
	find_path(PITOT_BPF_ASM_INCLUDE asm/types.h) # of the processor, which programs for bpf lack
	find_library(PITOT_BPF_LIBRARY NAMES ${CMAKE_STATIC_LIBRARY_PREFIX}bpf${CMAKE_STATIC_LIBRARY_SUFFIX})
	find_library(PITOT_ELF_LIBRARY NAMES ${CMAKE_STATIC_LIBRARY_PREFIX}elf${CMAKE_STATIC_LIBRARY_SUFFIX})
	mark_as_advanced(PITOT_BPF_CLANG PITOT_BPF_STRIP PITOT_BPF_INCLUDE PITOT_BPF_ASM_INCLUDE PITOT_BPF_LIBRARY PITOT_ELF_LIBRARY)
	set(missing)
	if(NOT PITOT_BPF_CLANG)
		list(APPEND missing clang)
	endif()
	if(NOT PITOT_BPF_INCLUDE OR NOT PITOT_BPF_LIBRARY)
		list(APPEND missing libbpf)
	elseif(NOT EXISTS ${PITOT_BPF_INCLUDE}/bpf/libbpf_version.h)
		list(APPEND missing "libbpf 1.0")
	endif()
	if(NOT PITOT_ELF_LIBRARY)
		list(APPEND missing libelf)
	endif()
	if(NOT missing)
		execute_process(COMMAND ${PITOT_BPF_CLANG} -target bpf -x c -c /dev/null -o /dev/null
			RESULT_VARIABLE status OUTPUT_QUIET ERROR_QUIET)
		if(NOT status EQUAL 0)
			list(APPEND missing "a clang that compiles for bpf")
		endif()
		pitot_bpf_links(${PITOT_ELF_LIBRARY} PITOT_BPF_LINKS)
		if(NOT PITOT_BPF_LINKS)
			# Debian 13's libelf.a lacks functions of its own.
			find_library(PITOT_ELF_SHARED NAMES elf)
			mark_as_advanced(PITOT_ELF_SHARED)
			pitot_bpf_links(${PITOT_ELF_SHARED} PITOT_BPF_LINKS_SHARED)
			set(PITOT_ELF_LIBRARY ${PITOT_ELF_SHARED})
		endif()
		if(NOT PITOT_BPF_LINKS AND NOT PITOT_BPF_LINKS_SHARED)
			list(APPEND missing "a libbpf and libelf that can be linked")
		endif()
	endif()
	list(JOIN missing ", " missing)
	set(missing "${missing}" PARENT_SCOPE)
	set(PITOT_ELF_LIBRARY ${PITOT_ELF_LIBRARY} PARENT_SCOPE)
endfunction()

# pitot_bpf(target): the target's sources below bpf/ and those named ebpf_* are the eBPF way; programs are *.bpf.c.
# Sets PITOT_HAVE_EBPF where it is built.
function(pitot_bpf target)
	get_target_property(type ${target} TYPE)
	if(type STREQUAL "INTERFACE_LIBRARY")
		return()
	endif()
	get_target_property(sources ${target} SOURCES)
	set(programs ${sources})
	list(FILTER programs INCLUDE REGEX "\\.bpf\\.c$")
	list(FILTER sources EXCLUDE REGEX "\\.bpf\\.c$")
	set(missing "")
	if(PITOT_BPF)
		pitot_find_bpf()
	endif()
	if(NOT PITOT_BPF OR missing)
		list(FILTER sources EXCLUDE REGEX "/(bpf/|ebpf_)[^/]*$")
		set_target_properties(${target} PROPERTIES SOURCES "${sources}")
		if(missing)
			message(NOTICE "eBPF: left out, for want of ${missing} (`make deps` installs what can be installed)")
		endif()
		return()
	endif()
	set_target_properties(${target} PROPERTIES SOURCES "${sources}")
	file(GLOB headers CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/sampler/ebpf/bpf/*.h
		${PROJECT_SOURCE_DIR}/src/arch/registers.h ${PROJECT_SOURCE_DIR}/src/arch/*/registers_*.h)
	foreach(program IN LISTS programs)
		get_filename_component(name ${program} NAME_WLE)
		string(REPLACE "." "_" name ${name})
		set(object ${CMAKE_CURRENT_BINARY_DIR}/bpf/${name}.o)
		set(embedded ${CMAKE_CURRENT_BINARY_DIR}/bpf/${name}.c)
		set(strip)
		if(PITOT_BPF_STRIP)
			set(strip COMMAND ${PITOT_BPF_STRIP} -g ${object})
		endif()
		file(MAKE_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/bpf)
		add_custom_command(OUTPUT ${embedded}
			COMMAND ${PITOT_BPF_CLANG} -target bpf -mcpu=v3 -O2 -g -Wall -Wextra
				-ffile-prefix-map=${PROJECT_SOURCE_DIR}/=
				-I${PROJECT_SOURCE_DIR}/src -I${PITOT_BPF_INCLUDE}
				-idirafter ${PITOT_BPF_ASM_INCLUDE} -D__${CMAKE_SYSTEM_PROCESSOR}__
				-c ${program} -o ${object}
			${strip}
			COMMAND ${CMAKE_COMMAND} -DINPUT=${object} -DOUTPUT=${embedded} -DNAME=${name} -P ${PITOT_BPF_SCRIPT}
			DEPENDS ${program} ${headers} ${PITOT_BPF_SCRIPT} VERBATIM)
		target_sources(${target} PRIVATE ${embedded})
	endforeach()
	set(PITOT_HAVE_EBPF TRUE PARENT_SCOPE)
	target_compile_definitions(${target} PRIVATE PITOT_HAVE_EBPF)
	target_include_directories(${target} SYSTEM PRIVATE ${PITOT_BPF_INCLUDE})
	target_link_libraries(${target} PUBLIC ${PITOT_BPF_LIBRARY} ${PITOT_ELF_LIBRARY} ZLIB ZSTD)
endfunction()

# Third-party libraries, static wherever possible so that one binary runs on any x86-64 Linux with glibc 2.34.

find_package(Threads REQUIRED)

function(pitot_static_library target header)
	find_path(${target}_INCLUDE_DIR ${header} PATH_SUFFIXES libiberty)
	foreach(name IN LISTS ARGN)
		find_library(${target}_LIBRARY NAMES ${CMAKE_STATIC_LIBRARY_PREFIX}${name}${CMAKE_STATIC_LIBRARY_SUFFIX} ${name})
	endforeach()
	if(NOT ${target}_INCLUDE_DIR OR NOT ${target}_LIBRARY)
		message(FATAL_ERROR "missing library: ${ARGN} (${header}); `make deps` installs what Pitot needs")
	endif()
	add_library(${target} INTERFACE)
	target_include_directories(${target} SYSTEM INTERFACE ${${target}_INCLUDE_DIR})
	target_link_libraries(${target} INTERFACE ${${target}_LIBRARY})
endfunction()

pitot_static_library(ZSTD zstd.h zstd)
pitot_static_library(ZLIB zlib.h z)
if(PITOT_CLI)
	pitot_static_library(IBERTY demangle.h iberty)
endif()

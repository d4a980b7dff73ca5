# The Python package: python/pitot with its extension module and the programs beside it, in <build>/python, from where
# PYTHONPATH finds it. Component `python` of the installation is what a wheel has (pyproject.toml).

add_custom_target(python_package) # what a wheel has
add_dependencies(python_package pitot_cli pitot pitot_preload pitot_rocm)

find_package(Python3 3.9 QUIET COMPONENTS Interpreter Development.Module)
if(NOT Python3_Development.Module_FOUND)
	message(STATUS "No Python.h (python3-dev): the Python package is not built")
	return()
endif()

set(suffix .abi3.so)
if(Python3_SOABI MATCHES "^cpython-[0-9]+t")
	set(suffix .${Python3_SOABI}.so) # free-threaded: no limited API
endif()
# python/<name>_module.c is pitot._<name>.
foreach(name read record)
	add_library(pitot_python_${name} MODULE ${PROJECT_SOURCE_DIR}/python/${name}_module.c)
	pitot_settings(pitot_python_${name} PRIVATE)
	target_include_directories(pitot_python_${name} SYSTEM PRIVATE ${Python3_INCLUDE_DIRS})
	if(CMAKE_CROSSCOMPILING) # Debian's headers include those of the processor from the folder above
		target_include_directories(pitot_python_${name} SYSTEM PRIVATE ${Python3_INCLUDE_DIRS}/..)
	endif()
	set_target_properties(pitot_python_${name} PROPERTIES PREFIX "" OUTPUT_NAME _${name} SUFFIX ${suffix} INSTALL_RPATH "$ORIGIN"
		LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/python/pitot)
	add_dependencies(python_package pitot_python_${name})
	install(TARGETS pitot_python_${name} LIBRARY DESTINATION pitot COMPONENT python EXCLUDE_FROM_ALL)
endforeach()
target_link_libraries(pitot_python_read PRIVATE pitotread)
target_sources(pitot_python_record PRIVATE ${PROJECT_SOURCE_DIR}/python/record_library.c ${PROJECT_SOURCE_DIR}/python/record_operators.c ${PROJECT_SOURCE_DIR}/python/record_scopes.c ${PROJECT_SOURCE_DIR}/python/record_options.c)
target_include_directories(pitot_python_record PRIVATE ${PROJECT_SOURCE_DIR}/include)
target_link_libraries(pitot_python_record PRIVATE pitot_schema ${CMAKE_DL_LIBS}) # it finds the recorder itself
target_link_options(pitot_python_record PRIVATE -Wl,--exclude-libs,ALL)

file(GLOB_RECURSE sources CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}/python ${PROJECT_SOURCE_DIR}/python/pitot/*.py
	${PROJECT_SOURCE_DIR}/python/pitot/*.pyi ${PROJECT_SOURCE_DIR}/python/pitot/py.typed)
foreach(source IN LISTS sources)
	get_filename_component(folder ${source} DIRECTORY)
	file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/python/${folder})
	file(CREATE_LINK ${PROJECT_SOURCE_DIR}/python/${source} ${CMAKE_BINARY_DIR}/python/${source} SYMBOLIC)
endforeach()
foreach(name pitot libpitot.so)
	file(CREATE_LINK ${CMAKE_BINARY_DIR}/${name} ${CMAKE_BINARY_DIR}/python/pitot/${name} SYMBOLIC)
endforeach()

# A wheel has no symbolic links, so each library has the name that it is looked for by.
install(PROGRAMS $<TARGET_FILE:pitot_cli> DESTINATION pitot COMPONENT python EXCLUDE_FROM_ALL)
install(FILES $<TARGET_FILE:pitot_preload> $<TARGET_FILE:pitot_rocm> DESTINATION pitot COMPONENT python EXCLUDE_FROM_ALL)
install(FILES $<TARGET_FILE:pitot> DESTINATION pitot RENAME libpitot.so COMPONENT python EXCLUDE_FROM_ALL)
install(FILES $<TARGET_FILE:pitotread> DESTINATION pitot RENAME $<TARGET_SONAME_FILE_NAME:pitotread> COMPONENT python
	EXCLUDE_FROM_ALL)

# The Python package: python/pitot with its extension module and the programs beside it, in <build>/python, from where
# PYTHONPATH finds it. Component `python` of the installation is what a wheel has (pyproject.toml).

add_custom_target(python_package) # what a wheel has
add_dependencies(python_package pitot_cli pitot pitot_preload)

find_package(Python3 3.9 QUIET COMPONENTS Interpreter Development.Module)
if(NOT Python3_Development.Module_FOUND)
	message(STATUS "No Python.h (python3-dev): the Python package is not built")
	return()
endif()

add_library(pitot_python MODULE ${PROJECT_SOURCE_DIR}/python/read_module.c)
pitot_settings(pitot_python PRIVATE)
target_include_directories(pitot_python SYSTEM PRIVATE ${Python3_INCLUDE_DIRS})
target_link_libraries(pitot_python PRIVATE pitotread)
set(suffix .abi3.so)
if(Python3_SOABI MATCHES "^cpython-[0-9]+t")
	set(suffix .${Python3_SOABI}.so) # free-threaded: no limited API
endif()
set_target_properties(pitot_python PROPERTIES PREFIX "" OUTPUT_NAME _read SUFFIX ${suffix} INSTALL_RPATH "$ORIGIN"
	LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/python/pitot)

file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/python/pitot/*.py ${PROJECT_SOURCE_DIR}/python/pitot/*.pyi
	${PROJECT_SOURCE_DIR}/python/pitot/py.typed)
file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/python/pitot)
foreach(source IN LISTS sources)
	get_filename_component(name ${source} NAME)
	file(CREATE_LINK ${source} ${CMAKE_BINARY_DIR}/python/pitot/${name} SYMBOLIC)
endforeach()
file(CREATE_LINK ${CMAKE_BINARY_DIR}/pitot ${CMAKE_BINARY_DIR}/python/pitot/pitot SYMBOLIC)

add_dependencies(python_package pitot_python)

# A wheel has no symbolic links, so each library has the name that it is looked for by.
install(TARGETS pitot_python LIBRARY DESTINATION pitot COMPONENT python EXCLUDE_FROM_ALL)
install(PROGRAMS $<TARGET_FILE:pitot_cli> DESTINATION pitot COMPONENT python EXCLUDE_FROM_ALL)
install(FILES $<TARGET_FILE:pitot_preload> DESTINATION pitot COMPONENT python EXCLUDE_FROM_ALL)
install(FILES $<TARGET_FILE:pitot> DESTINATION pitot RENAME libpitot.so COMPONENT python EXCLUDE_FROM_ALL)
install(FILES $<TARGET_FILE:pitotread> DESTINATION pitot RENAME $<TARGET_SONAME_FILE_NAME:pitotread> COMPONENT python
	EXCLUDE_FROM_ALL)

# What `make install` puts where: the program, the recorder's library with its header, CMake package and pkg-config
# file, man pages and shell completions.

include(CMakePackageConfigHelpers)

install(TARGETS pitot EXPORT PitotTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS pitot_preload pitot_rocm LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/pitot include/gpufl include/tracesmith DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
configure_package_config_file(cmake/PitotConfig.cmake.in ${CMAKE_CURRENT_BINARY_DIR}/PitotConfig.cmake
	INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/Pitot)
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/PitotConfigVersion.cmake
	COMPATIBILITY SameMajorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/PitotConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/PitotConfigVersion.cmake
	DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/Pitot)

# Relative to the file itself, so that an installation can be moved.
file(RELATIVE_PATH PITOT_PC_PREFIX ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
string(REGEX REPLACE "/$" "" PITOT_PC_PREFIX "${PITOT_PC_PREFIX}")
configure_file(cmake/pitot.pc.in pitot.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/pitot.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

if(TARGET pitot_cli)
	install(TARGETS pitotread EXPORT PitotTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
	install(TARGETS pitot_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
	# Written by the program itself from the declarations of its commands.
	set(documents ${CMAKE_CURRENT_BINARY_DIR}/documents)
	add_custom_command(OUTPUT ${documents}/stamp
		COMMAND ${CMAKE_COMMAND} -DPITOT=$<TARGET_FILE:pitot_cli> -DFOLDER=${documents}
			-P ${PROJECT_SOURCE_DIR}/cmake/WriteDocuments.cmake
		DEPENDS pitot_cli cmake/WriteDocuments.cmake VERBATIM
		COMMENT "Writing man pages and shell completions")
	add_custom_target(documents ALL DEPENDS ${documents}/stamp)
	install(DIRECTORY ${documents}/man/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
	install(FILES ${documents}/completion/pitot.bash RENAME pitot
		DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
	install(FILES ${documents}/completion/pitot.zsh RENAME _pitot
		DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
	install(FILES ${documents}/completion/pitot.fish
		DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
endif()

install(EXPORT PitotTargets NAMESPACE Pitot:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/Pitot)

# One static library per folder of src/; the order of the layers is held by tools/check-layers.

set(PITOT_WARNINGS -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wwrite-strings
	-Wpointer-arith -Wformat=2 -Wundef -fno-common)
if(PITOT_WERROR)
	list(APPEND PITOT_WARNINGS -Werror)
endif()

# pitot_settings(target [PRIVATE]): what every target of ours is compiled with. A layer hands it on to the next.
function(pitot_settings target)
	set(scope PUBLIC)
	if(ARGC GREATER 1)
		set(scope ${ARGV1})
	endif()
	target_compile_options(${target} PRIVATE ${PITOT_WARNINGS})
	target_compile_definitions(${target} PRIVATE _GNU_SOURCE PITOT_VERSION="${PROJECT_VERSION}")
	target_include_directories(${target} ${scope} ${PROJECT_SOURCE_DIR}/src)
	target_link_options(${target} PRIVATE -Wl,-z,relro,-z,now)
	if(PITOT_SANITIZE)
		set(sanitize -fsanitize=${PITOT_SANITIZE})
		if(PITOT_SANITIZE MATCHES "undefined" AND PITOT_TRAPS)
			# The messages' data are 10 MB of each process, which LeakSanitizer searches at its end: 14 ms a start, not 7.
			list(APPEND sanitize -fsanitize-undefined-trap-on-error)
		elseif(PITOT_SANITIZE MATCHES "undefined")
			list(APPEND sanitize -fno-sanitize-recover=undefined) # a finding fails the test
		endif()
		target_compile_options(${target} ${scope} ${sanitize} -fno-omit-frame-pointer)
		target_compile_definitions(${target} ${scope} PITOT_SLOWNESS=10)
		target_link_options(${target} ${scope} ${sanitize})
	endif()
endfunction()

# pitot_layer(name dependency…): library pitot_<name> from src/<name>/*.c.
# A layer that has no sources yet is an interface library, so that the order can be stated before the code exists.
function(pitot_layer name)
	file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${name}/*.c)
	if(name STREQUAL arch) # of other processors only what reads their files
		list(FILTER sources EXCLUDE REGEX "/processor_[^/]*$")
		list(APPEND sources ${PROJECT_SOURCE_DIR}/src/arch/${CMAKE_SYSTEM_PROCESSOR}/processor_${CMAKE_SYSTEM_PROCESSOR}.c)
	endif()
	set(dependencies)
	foreach(dependency IN LISTS ARGN)
		if(dependency MATCHES "^[a-z]")
			list(APPEND dependencies pitot_${dependency})
		else()
			list(APPEND dependencies ${dependency})
		endif()
	endforeach()
	if(sources)
		add_library(pitot_${name} STATIC ${sources})
		pitot_settings(pitot_${name})
		if(PITOT_SANITIZE MATCHES "address" AND name MATCHES "^(base|elf|format|stack|symbol|trace|causes|analysis|compare)$")
			target_compile_options(pitot_${name} PRIVATE -O1) # what tests spend most of their time in
		endif()
		target_link_libraries(pitot_${name} PUBLIC ${dependencies} Threads::Threads)
	else()
		add_library(pitot_${name} INTERFACE)
		target_link_libraries(pitot_${name} INTERFACE ${dependencies})
	endif()
endfunction()

function(pitot_capture)
	file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/capture/*.c)
	if(NOT PITOT_HAVE_CUDA)
		list(FILTER sources EXCLUDE REGEX "/src/capture/(cuda|engines|nccl|nvml)/")
	endif()
	if(NOT sources)
		return()
	endif()
	add_library(pitot_capture STATIC ${sources})
	pitot_settings(pitot_capture)
	target_include_directories(pitot_capture PUBLIC ${PROJECT_SOURCE_DIR}/include)
	target_link_libraries(pitot_capture PUBLIC pitot_system pitot_gpufl pitot_cupti pitot_perfetto pitot_names pitot_stack pitot_format pitot_schema pitot_base CUDA_HEADERS
		${CMAKE_DL_LIBS} Threads::Threads)
	add_library(pitot SHARED $<TARGET_OBJECTS:pitot_capture>)
	add_library(Pitot::pitot ALIAS pitot)
	pitot_settings(pitot PRIVATE)
	target_include_directories(pitot PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
		$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
	target_link_libraries(pitot PRIVATE pitot_system pitot_gpufl pitot_cupti pitot_perfetto pitot_names pitot_stack pitot_format pitot_schema pitot_base CUDA_HEADERS ${CMAKE_DL_LIBS}
		Threads::Threads)
	target_link_options(pitot PRIVATE -Wl,-z,nodelete,-Bsymbolic-functions,--exclude-libs,ALL,--no-undefined
		-Wl,--version-script=${PROJECT_SOURCE_DIR}/src/capture/libpitot.map)
	# gpufl's name, for programs that are built as its documents say.
	add_library(gpufl INTERFACE)
	target_link_libraries(gpufl INTERFACE pitot)
	target_compile_features(gpufl INTERFACE cxx_std_17)
	set_target_properties(pitot PROPERTIES OUTPUT_NAME pitot VERSION ${PROJECT_VERSION}
		SOVERSION ${PROJECT_VERSION_MAJOR} LINK_DEPENDS ${PROJECT_SOURCE_DIR}/src/capture/libpitot.map)
endfunction()

# libpitotread.so: layer read with all below it, of which only the functions of include/pitot/read.h are seen.
function(pitot_read_library)
	target_include_directories(pitot_read PUBLIC ${PROJECT_SOURCE_DIR}/include)
	set(map ${PROJECT_SOURCE_DIR}/src/read/libpitotread.map)
	add_library(pitotread SHARED $<TARGET_OBJECTS:pitot_read>)
	set_target_properties(pitotread PROPERTIES LINKER_LANGUAGE C VERSION ${PROJECT_VERSION}
		SOVERSION ${PROJECT_VERSION_MAJOR} LINK_DEPENDS ${map})
	target_include_directories(pitotread PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
		$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
	target_link_libraries(pitotread PRIVATE pitot_sql pitot_report pitot_export ${CMAKE_DL_LIBS})
	target_link_options(pitotread PRIVATE -Wl,-z,relro,-z,now,--exclude-libs,ALL,--no-undefined -Wl,--version-script=${map})
endfunction()

# Libraries that are loaded into programs that are not ours, before anything else: never with a sanitizer.
function(pitot_guest name)
	add_library(pitot_${name} SHARED ${ARGN})
	target_compile_options(pitot_${name} PRIVATE ${PITOT_WARNINGS})
	target_compile_definitions(pitot_${name} PRIVATE _GNU_SOURCE)
	target_include_directories(pitot_${name} PRIVATE ${PROJECT_SOURCE_DIR}/src)
	target_link_libraries(pitot_${name} PRIVATE ${CMAKE_DL_LIBS})
	target_link_options(pitot_${name} PRIVATE -Wl,-z,relro,-z,now,-z,nodelete,--no-undefined)
	set_target_properties(pitot_${name} PROPERTIES OUTPUT_NAME pitot-${name})
endfunction()

function(pitot_cli)
	file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/cli/*.c)
	if(NOT sources)
		return()
	endif()
	add_executable(pitot_cli ${sources})
	pitot_settings(pitot_cli)
	set_target_properties(pitot_cli PROPERTIES OUTPUT_NAME pitot)
	target_link_libraries(pitot_cli PRIVATE pitot_serve pitot_agent pitot_record pitot_compare pitot_replay pitot_import pitot_upload pitot_read pitot_cupti pitot_sampler pitot_export pitot_report pitot_analysis pitot_trace pitot_format pitot_base
		${CMAKE_DL_LIBS})
	if(PITOT_SANITIZE MATCHES "address")
		# Tests start it thousands of times. The sanitizers' data are 10 MB and 370,000 addresses, which nobody has to
		# relocate so: 19 ms a start instead of 25.
		target_link_options(pitot_cli PRIVATE -no-pie)
	endif()
endfunction()

# Headers of CUDA and CUPTI, the only parts of CUDA that building Pitot needs: from a toolkit, else from the wheels that
# NVIDIA publishes on PyPI (pinned in cuda-headers.txt), unpacked into the build folder. Sets PITOT_HAVE_CUDA and the
# target CUDA_HEADERS; with neither source, libpitot.so is built without its CUDA part.

set(PITOT_CUDA_HEADERS auto CACHE STRING "auto, toolkit, wheels, none, or a folder that has cuda.h and cupti.h")

function(pitot_find_cuda_headers result)
	set(target ${CMAKE_SYSTEM_PROCESSOR}-linux)
	if(target STREQUAL aarch64-linux)
		set(target sbsa-linux)
	endif()
	set(hints $ENV{CUDA_HOME} $ENV{CUDA_PATH} ${CUDAToolkit_ROOT} $ENV{CUDAToolkit_ROOT} /usr/local/cuda /opt/cuda)
	file(GLOB versions /usr/local/cuda-[0-9]*)
	list(SORT versions COMPARE NATURAL ORDER DESCENDING)
	find_path(PITOT_CUDA_INCLUDE cuda.h HINTS ${hints} ${versions} PATH_SUFFIXES include targets/${target}/include)
	find_path(PITOT_CUPTI_INCLUDE cupti.h HINTS ${PITOT_CUDA_INCLUDE} ${hints} ${versions}
		PATH_SUFFIXES include extras/CUPTI/include targets/${target}/include)
	mark_as_advanced(PITOT_CUDA_INCLUDE PITOT_CUPTI_INCLUDE)
	if(PITOT_CUDA_INCLUDE AND PITOT_CUPTI_INCLUDE)
		set(${result} ${PITOT_CUDA_INCLUDE} ${PITOT_CUPTI_INCLUDE} PARENT_SCOPE)
	endif()
endfunction()

function(pitot_download_cuda_headers result)
	set(folder ${CMAKE_BINARY_DIR}/cuda-headers)
	set(include ${folder}/nvidia/cu13/include)
	find_program(PITOT_PYTHON NAMES python3)
	mark_as_advanced(PITOT_PYTHON)
	if(NOT EXISTS ${include}/cupti.h AND PITOT_PYTHON)
		message(NOTICE "CUDA headers: downloading NVIDIA's header wheels from PyPI")
		execute_process(
			COMMAND ${PITOT_PYTHON} -m pip download --quiet --disable-pip-version-check --no-deps
				--timeout 30 --retries 5 --only-binary :all: --require-hashes --requirement
				${PROJECT_SOURCE_DIR}/cmake/cuda-headers.txt --dest ${folder}
			TIMEOUT 600 RESULT_VARIABLE status ERROR_VARIABLE said OUTPUT_QUIET)
		if(NOT status EQUAL 0)
			string(STRIP "${said}" said)
			message(NOTICE "CUDA headers: the download failed: ${said}")
		endif()
		file(GLOB wheels ${folder}/*.whl)
		foreach(wheel IN LISTS wheels)
			file(ARCHIVE_EXTRACT INPUT ${wheel} DESTINATION ${folder} PATTERNS nvidia/cu13/include/*)
		endforeach()
	endif()
	if(EXISTS ${include}/cupti.h AND EXISTS ${include}/cuda.h AND EXISTS ${include}/crt/host_defines.h)
		set(${result} ${include} PARENT_SCOPE)
	endif()
endfunction()

if(PITOT_CUDA_HEADERS STREQUAL "auto" OR PITOT_CUDA_HEADERS STREQUAL "toolkit")
	pitot_find_cuda_headers(PITOT_CUDA_FOLDERS)
endif()
if(NOT PITOT_CUDA_FOLDERS AND (PITOT_CUDA_HEADERS STREQUAL "auto" OR PITOT_CUDA_HEADERS STREQUAL "wheels"))
	pitot_download_cuda_headers(PITOT_CUDA_FOLDERS)
endif()
if(EXISTS ${PITOT_CUDA_HEADERS}/cupti.h)
	set(PITOT_CUDA_FOLDERS ${PITOT_CUDA_HEADERS})
endif()

add_library(CUDA_HEADERS INTERFACE)
if(PITOT_CUDA_FOLDERS)
	set(PITOT_HAVE_CUDA TRUE)
	list(REMOVE_DUPLICATES PITOT_CUDA_FOLDERS)
	# cupti_profiler_host.h of CUDA 12.6 to 13.2 includes C++'s <string>, and uses nothing of it.
	file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/cuda-shim/string CONTENT "")
	target_include_directories(CUDA_HEADERS SYSTEM INTERFACE ${PITOT_CUDA_FOLDERS}
		$<$<COMPILE_LANGUAGE:C>:${CMAKE_BINARY_DIR}/cuda-shim>)
	message(STATUS "CUDA headers: ${PITOT_CUDA_FOLDERS}")
elseif(NOT PITOT_CUDA_HEADERS STREQUAL "auto" AND NOT PITOT_CUDA_HEADERS STREQUAL "none")
	message(FATAL_ERROR "no cuda.h and cupti.h where -DPITOT_CUDA_HEADERS=${PITOT_CUDA_HEADERS} says: "
		"give a folder with both, toolkit, wheels, none or auto")
else()
	set(PITOT_HAVE_CUDA FALSE)
	target_compile_definitions(CUDA_HEADERS INTERFACE PITOT_WITHOUT_CUDA)
	message(NOTICE "CUDA headers: none found, libpitot.so is built without its CUDA part "
		"(install a toolkit, or give -DPITOT_CUDA_HEADERS=FOLDER)")
endif()

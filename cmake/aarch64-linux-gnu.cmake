# Toolchain file: builds for 64-bit Arm with Debian's cross compiler, against the packages that tools/get-aarch64-sysroot
# unpacks into build/aarch64-sysroot. Programs run in qemu's user emulator. Headers of CUDA are the same for both processors.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
get_filename_component(PITOT_SYSROOT ${CMAKE_CURRENT_LIST_DIR}/../build/aarch64-sysroot REALPATH)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_FIND_ROOT_PATH ${PITOT_SYSROOT} /usr/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64;-L;/usr/aarch64-linux-gnu;-E;LD_LIBRARY_PATH=${PITOT_SYSROOT}/usr/lib/aarch64-linux-gnu)
# Headers of another version serve as well: the package uses the stable interface.
set(Python3_INCLUDE_DIR ${PITOT_SYSROOT}/usr/include/python3.11 CACHE PATH "" FORCE)

if(EXISTS /usr/local/cuda/include/cupti.h AND EXISTS /usr/local/cuda/include/cuda.h)
	set(PITOT_CUDA_HEADERS /usr/local/cuda/include CACHE STRING "")
else()
	set(PITOT_CUDA_HEADERS wheels CACHE STRING "")
endif()

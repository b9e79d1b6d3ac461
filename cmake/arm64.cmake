# Toolchain for 64-bit ARM on Debian, whose programs run here through qemu-user: scripts/arm64.sh.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
find_program(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++) # without it the C++ face is not tested
set(CMAKE_LINKER aarch64-linux-gnu-ld)
set(CMAKE_OBJCOPY aarch64-linux-gnu-objcopy)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64)

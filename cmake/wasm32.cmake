# Toolchain file: WebAssembly with SIMD, with Debian's clang 19, wasi-libc and libc++.
set(CMAKE_SYSTEM_NAME Generic)
set(CMAKE_SYSTEM_PROCESSOR wasm32)
set(CMAKE_CXX_COMPILER clang++-19)
set(CMAKE_CXX_COMPILER_TARGET wasm32-wasi)
set(CMAKE_AR llvm-ar-19)
set(CMAKE_RANLIB llvm-ranlib-19)
set(CMAKE_CXX_FLAGS_INIT "-msimd128 -fno-exceptions -fno-rtti -fvisibility=hidden")
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)

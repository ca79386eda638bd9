# Libraries that cargo builds, for the machine that CMake builds for.

find_program(CARGO cargo HINTS $ENV{HOME}/.cargo/bin NO_CMAKE_FIND_ROOT_PATH)
if(NOT CARGO)
    message(FATAL_ERROR "cargo was not found: install Rust 1.88 or newer, or pass -DCARGO=PATH")
endif()

# Rust's name of the machine, and who links for it; both empty for the machine at hand.
set(rust_target "")
set(rust_linker "")
if(ANDROID)
    set(triple_arm64-v8a aarch64-linux-android)
    set(triple_armeabi-v7a armv7-linux-androideabi)
    set(triple_x86_64 x86_64-linux-android)
    set(triple_x86 i686-linux-android)
    set(abi_name ${CMAKE_ANDROID_ARCH_ABI})
    if(NOT DEFINED triple_${abi_name})
        message(FATAL_ERROR "no Rust target is known for the Android ABI '${abi_name}'")
    endif()
    set(rust_target ${triple_${abi_name}})
    # The NDK has a linker for each target and API level beside its compiler.
    string(REPLACE "armv7-" "armv7a-" prefix ${rust_target})
    get_filename_component(tools ${CMAKE_C_COMPILER} DIRECTORY)
    set(level ${CMAKE_SYSTEM_VERSION})
    if(ANDROID_PLATFORM_LEVEL)
        set(level ${ANDROID_PLATFORM_LEVEL})
    endif()
    set(rust_linker ${tools}/${prefix}${level}-clang)
    if(NOT EXISTS ${rust_linker})
        message(FATAL_ERROR "'${rust_linker}' was not found: use the toolchain file of an NDK")
    endif()
elseif(CMAKE_CROSSCOMPILING)
    set(rust_target ${CMAKE_SYSTEM_PROCESSOR}-unknown-linux-gnu)
    set(rust_linker ${CMAKE_C_COMPILER})
endif()
set(FBLAYOUT_RUST_TARGET "${rust_target}" CACHE STRING "Rust's name of the machine to build for; empty for the one at hand")

# Everything is built as hosts ship it, but Debug as `dev`.
set(FBLAYOUT_CARGO_PROFILE dist CACHE STRING "cargo's profile where CMake does not build Debug")
set(cargo_profile $<IF:$<CONFIG:Debug>,dev,${FBLAYOUT_CARGO_PROFILE}>)
set(cargo_folder $<IF:$<CONFIG:Debug>,debug,${FBLAYOUT_CARGO_PROFILE}>)
set(cargo_output ${FBLAYOUT_CARGO_DIR}/${cargo_folder})
set(cargo_command ${CARGO} build --locked --profile ${cargo_profile} --target-dir ${FBLAYOUT_CARGO_DIR})
if(FBLAYOUT_RUST_TARGET)
    string(TOUPPER CARGO_TARGET_${FBLAYOUT_RUST_TARGET}_LINKER variable)
    string(REPLACE - _ variable ${variable})
    set(cargo_output ${FBLAYOUT_CARGO_DIR}/${FBLAYOUT_RUST_TARGET}/${cargo_folder})
    list(PREPEND cargo_command ${CMAKE_COMMAND} -E env ${variable}=${rust_linker})
    list(APPEND cargo_command --target ${FBLAYOUT_RUST_TARGET})
endif()

# cargo_libraries(PACKAGE (BUILT NAME)...): target cargo-PACKAGE, which leaves what cargo calls BUILT in lib/ as NAME.
function(cargo_libraries package)
    set(copies)
    set(products)
    while(ARGN)
        list(POP_FRONT ARGN built name)
        list(APPEND copies COMMAND ${CMAKE_COMMAND} -E copy_if_different ${cargo_output}/${built} ${lib}/${name})
        list(APPEND products ${lib}/${name})
    endwhile()
    # Always run: cargo itself decides what is stale.
    add_custom_target(cargo-${package} ALL
        COMMAND ${cargo_command} -p ${package}
        COMMAND ${CMAKE_COMMAND} -E make_directory ${lib}
        ${copies}
        WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR}
        BYPRODUCTS ${products}
        USES_TERMINAL
        VERBATIM)
endfunction()

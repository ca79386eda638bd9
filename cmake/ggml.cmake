# Which ggml the plugin is for. It needs none to be built; a host of another interface would refuse it when it runs.

file(STRINGS ffi/ggml/src/abi.rs own REGEX "pub const API_VERSION")
string(REGEX MATCH "[0-9]+" own "${own}")

if(FBLAYOUT_GGML_DIR)
    set(interface ${FBLAYOUT_GGML_DIR}/src/ggml-backend-impl.h)
    if(NOT EXISTS ${interface})
        message(FATAL_ERROR "FBLAYOUT_GGML_DIR: '${interface}' was not found; name the folder of ggml's own CMakeLists.txt")
    endif()
    file(STRINGS ${interface} theirs REGEX "#define GGML_BACKEND_API_VERSION")
    string(REGEX MATCH "[0-9]+" theirs "${theirs}")
    if(NOT theirs EQUAL own)
        message(FATAL_ERROR "FBLAYOUT_GGML_DIR: its plugins speak interface ${theirs}, this one speaks ${own} (ggml 0.26)")
    endif()
endif()

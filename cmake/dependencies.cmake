# Libraries as targets, one name each. All come from Debian packages; penstock.sh installs them.
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
find_package(spdlog REQUIRED)
find_package(GTest REQUIRED)
find_package(FlatBuffers REQUIRED)
find_package(OpenSSL REQUIRED)
find_package(Boost 1.74 REQUIRED)
pkg_check_modules(ZMQ REQUIRED IMPORTED_TARGET libzmq)
pkg_check_modules(UCX REQUIRED IMPORTED_TARGET ucx)
pkg_check_modules(PCRE2 REQUIRED IMPORTED_TARGET libpcre2-8)
pkg_check_modules(SIMDJSON REQUIRED IMPORTED_TARGET simdjson)
# Header only: nlohmann/json.hpp, toml++/toml.h, CLI/CLI.hpp, xxhash.h (XXH_INLINE_ALL), zmq.hpp.

# Third-party headers are read as system headers, so that our warnings stay about our code.
foreach(target PkgConfig::ZMQ PkgConfig::UCX PkgConfig::PCRE2 PkgConfig::SIMDJSON)
  get_target_property(dirs ${target} INTERFACE_INCLUDE_DIRECTORIES)
  if(dirs)
    set_target_properties(${target} PROPERTIES INTERFACE_SYSTEM_INCLUDE_DIRECTORIES "${dirs}")
  endif()
endforeach()

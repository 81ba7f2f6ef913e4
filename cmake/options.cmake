# Build-wide switches. Presets (CMakePresets.json) set them; nothing else needs to.
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
set(PENSTOCK_SANITIZE "" CACHE STRING "address,undefined | thread | empty")
option(PENSTOCK_FAULT_POINTS "Compile the fault points that tests arm (never in the product)" OFF)

add_compile_options(-Wall -Wextra -Werror -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual
                    $<$<CXX_COMPILER_ID:GNU>:-Wduplicated-cond>
                    $<$<CXX_COMPILER_ID:GNU>:-Wlogical-op>)
# g++ 12 sees impossible overlaps in `"text" + string` (GCC bug 105651) and uninitialised std::string inside Result.
add_compile_options($<$<CXX_COMPILER_ID:GNU>:-Wno-restrict> $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
# The baseline is x86-64-v2; wider instructions live in files that set their own flags and are chosen at run time.
add_compile_options(-fno-math-errno -ffp-contract=off)

if(PENSTOCK_SANITIZE)
  add_compile_options(-fsanitize=${PENSTOCK_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all -g1 -O1)
  add_link_options(-fsanitize=${PENSTOCK_SANITIZE})
endif()
if(PENSTOCK_FAULT_POINTS)
  add_compile_definitions(PENSTOCK_FAULT_POINTS)
endif()

# Paths below the source folder are hashed as relative ones, so that another clone or worktree finds the same objects.
find_program(CCACHE ccache)
if(CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1 ${CCACHE})
endif()

# room(NAME SRCS ... DEPS ... [LIBS ...])
#   One static library `penstock_NAME` from the files listed. DEPS are rooms it may include from
#   (DESIGN: the table of levels; tests/tidy checks every #include against them), LIBS are third-party targets.
function(room name)
  cmake_parse_arguments(ROOM "" "" "SRCS;DEPS;LIBS" ${ARGN})
  add_library(penstock_${name} STATIC ${ROOM_SRCS})
  target_include_directories(penstock_${name} PUBLIC ${CMAKE_SOURCE_DIR})
  list(TRANSFORM ROOM_DEPS PREPEND penstock_)
  target_link_libraries(penstock_${name} PUBLIC ${ROOM_DEPS} ${ROOM_LIBS} Threads::Threads)
endfunction()

# room_test(NAME SRCS ... ROOMS ... [LIBS ...] [LABELS ...] [TIMEOUT seconds])
#   One GoogleTest program for tests/NAME; ctest sees it as one test called NAME. LABELS: model (needs the
#   demo model), gpu, slow, emulator.
function(room_test name)
  cmake_parse_arguments(TEST "" "TIMEOUT" "SRCS;ROOMS;LIBS;LABELS" ${ARGN})
  add_executable(${name}_test ${TEST_SRCS})
  list(TRANSFORM TEST_ROOMS PREPEND penstock_)
  target_link_libraries(${name}_test PRIVATE ${TEST_ROOMS} ${TEST_LIBS} GTest::gtest_main)
  target_include_directories(${name}_test PRIVATE ${CMAKE_SOURCE_DIR})
  target_compile_definitions(${name}_test PRIVATE PENSTOCK_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
  add_test(NAME ${name} COMMAND ${name}_test)
  if(NOT TEST_TIMEOUT)
    set(TEST_TIMEOUT 120)
  endif()
  set_tests_properties(${name} PROPERTIES TIMEOUT ${TEST_TIMEOUT} LABELS "${TEST_LABELS}")
endfunction()

# link_test(NAME): a program that links room NAME alone, so that a dependency it does not declare cannot hide.
function(link_test name)
  add_executable(${name}_link_test ${CMAKE_SOURCE_DIR}/tests/link/link_main.cc)
  target_link_libraries(${name}_link_test PRIVATE -Wl,--whole-archive penstock_${name} -Wl,--no-whole-archive)
  add_test(NAME link_${name} COMMAND ${name}_link_test)
endfunction()

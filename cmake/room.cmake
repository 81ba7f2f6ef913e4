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

# Which tests ctest sees depends on the flavour of the build; every flavour defines all test programs, so that
# one can be built by name.
#   release (and debug)  all tests except those labelled `fault`
#   fault                the tests labelled `fault`, as fault.NAME: they need the fault points
#   asan, tsan           the rooms below, as asan.NAME and tsan.NAME; not their tests labelled `emulator` or `bench`;
#                        asan also text, which reads strangers' files and requests
# The target `flavour_tests` builds what the flavour's tests need.
set(PENSTOCK_SANITIZED_ROOMS scheduler kv_transfer engine node router wire)
if(PENSTOCK_SANITIZE MATCHES "thread")
  set(PENSTOCK_FLAVOUR tsan)
elseif(PENSTOCK_SANITIZE)
  set(PENSTOCK_FLAVOUR asan)
  list(APPEND PENSTOCK_SANITIZED_ROOMS text)
elseif(PENSTOCK_FAULT_POINTS)
  set(PENSTOCK_FLAVOUR fault)
else()
  set(PENSTOCK_FLAVOUR release)
endif()
add_custom_target(flavour_tests)

# Sets OUT to the name ctest shall give the test in this flavour, or to nothing.
function(flavour_test_name out name labels)
  get_filename_component(room ${CMAKE_CURRENT_SOURCE_DIR} NAME)
  set(${out} "" PARENT_SCOPE)
  if(PENSTOCK_FLAVOUR STREQUAL "release")
    if(NOT "fault" IN_LIST labels)
      set(${out} ${name} PARENT_SCOPE)
    endif()
  elseif(PENSTOCK_FLAVOUR STREQUAL "fault")
    if("fault" IN_LIST labels)
      set(${out} fault.${name} PARENT_SCOPE)
    endif()
  elseif(room IN_LIST PENSTOCK_SANITIZED_ROOMS AND NOT "emulator" IN_LIST labels AND NOT "bench" IN_LIST labels)
    set(${out} ${PENSTOCK_FLAVOUR}.${name} PARENT_SCOPE)
  endif()
endfunction()

# room_test(NAME SRCS ... ROOMS ... [LIBS ...] [LABELS ...] [TIMEOUT seconds] [PROCESSORS n] [DEPENDS targets...])
#   One GoogleTest program for tests/<room>; ctest sees it as one test called NAME. LABELS: model (needs the demo
#   model), gpu, slow, emulator, fault (needs fault points), bench. PROCESSORS: cores that it keeps busy (default 1).
#   DEPENDS: programs that it starts, such as `penstock`.
function(room_test name)
  cmake_parse_arguments(TEST "" "TIMEOUT;PROCESSORS" "SRCS;ROOMS;LIBS;LABELS;DEPENDS" ${ARGN})
  add_executable(${name}_test ${TEST_SRCS})
  list(TRANSFORM TEST_ROOMS PREPEND penstock_)
  target_link_libraries(${name}_test PRIVATE ${TEST_ROOMS} ${TEST_LIBS} GTest::gtest_main)
  target_include_directories(${name}_test PRIVATE ${CMAKE_SOURCE_DIR})
  target_compile_definitions(${name}_test PRIVATE PENSTOCK_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
  if(TEST_DEPENDS)
    add_dependencies(${name}_test ${TEST_DEPENDS})
  endif()
  flavour_test_name(test_name ${name} "${TEST_LABELS}")
  if(NOT test_name)
    return()
  endif()
  add_test(NAME ${test_name} COMMAND ${name}_test)
  add_dependencies(flavour_tests ${name}_test)
  test_properties(${test_name} "${TEST_TIMEOUT}" "${TEST_PROCESSORS}" "${TEST_LABELS}")
endfunction()

# program_test(NAME COMMAND ... [LABELS ...] [TIMEOUT seconds] [PROCESSORS n] [DEPENDS targets...])
#   A test that is a script or another program; DEPENDS are built before it. Same flavours as room_test.
function(program_test name)
  cmake_parse_arguments(TEST "" "TIMEOUT;PROCESSORS" "COMMAND;LABELS;DEPENDS" ${ARGN})
  flavour_test_name(test_name ${name} "${TEST_LABELS}")
  if(NOT test_name)
    return()
  endif()
  add_test(NAME ${test_name} COMMAND ${TEST_COMMAND} WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR})
  if(TEST_DEPENDS)
    add_dependencies(flavour_tests ${TEST_DEPENDS})
  endif()
  test_properties(${test_name} "${TEST_TIMEOUT}" "${TEST_PROCESSORS}" "${TEST_LABELS}")
endfunction()

# What every test gets: a deadline (sanitizers slow it fourfold), its labels, the binary, and the sanitizers' settings.
function(test_properties name timeout processors labels)
  if(NOT timeout)
    set(timeout 120)
  endif()
  if(NOT processors)
    set(processors 1)
  endif()
  if(PENSTOCK_SANITIZE)
    math(EXPR timeout "${timeout} * 4")
  endif()
  set(supp ${CMAKE_SOURCE_DIR}/cmake/suppressions)
  set_tests_properties(${name} PROPERTIES TIMEOUT ${timeout} PROCESSORS ${processors} LABELS "${labels}"
    ENVIRONMENT "PYTHONDONTWRITEBYTECODE=1;PENSTOCK_BINARY=${CMAKE_BINARY_DIR}/cli/penstock;LSAN_OPTIONS=suppressions=${supp}/lsan.txt;TSAN_OPTIONS=suppressions=${supp}/tsan.txt")
endfunction()

# link_test(NAME): a program that links room NAME alone, so that a dependency it does not declare cannot hide.
function(link_test name)
  add_executable(${name}_link_test ${CMAKE_SOURCE_DIR}/tests/link/link_main.cc)
  target_link_libraries(${name}_link_test PRIVATE -Wl,--whole-archive penstock_${name} -Wl,--no-whole-archive)
  if(PENSTOCK_FLAVOUR STREQUAL "release")
    add_test(NAME link_${name} COMMAND ${name}_link_test)
    add_dependencies(flavour_tests ${name}_link_test)
  endif()
endfunction()

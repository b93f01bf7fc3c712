# SPDX-License-Identifier: Apache-2.0
# Compiler settings and the two functions that every room uses.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()

find_program(CCACHE ccache)
if(CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE})
endif()
find_program(MOLD mold)
if(MOLD)
  add_link_options(-fuse-ld=mold)
endif()

# Debug info is kept small: line tables are enough for symbolised backtraces.
set(CMAKE_CXX_FLAGS_DEBUG "-O0 -g1")
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -g1 -DNDEBUG")
add_compile_options(-Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual
                    -Wextra-semi -Wimplicit-fallthrough -Wcast-qual)
option(TUTTI_WERROR "Treat warnings as errors" ON)
if(TUTTI_WERROR)
  add_compile_options(-Werror)
endif()
set(TUTTI_SANITIZE "" CACHE STRING "address,undefined or thread")
if(TUTTI_SANITIZE)
  add_compile_options(-fsanitize=${TUTTI_SANITIZE} -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${TUTTI_SANITIZE})
endif()
include_directories(${CMAKE_SOURCE_DIR})

# tutti_library(<room> SOURCES a.cc … [DEPS lib …]): the static library tutti_<room>.
function(tutti_library room)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_library(tutti_${room} STATIC ${ARG_SOURCES})
  target_link_libraries(tutti_${room} PUBLIC ${ARG_DEPS})
endfunction()

# tutti_test(<room> SOURCES a_test.cc … [DEPS lib …]): the test program <room>_test.
function(tutti_test room)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${room}_test ${ARG_SOURCES})
  target_link_libraries(${room}_test PRIVATE tutti_${room} ${ARG_DEPS} gtest gmock gtest_main pthread)
  # Only for the sources that name it: an absolute path in every command would make each clone compile anew (ccache).
  foreach(source ${ARG_SOURCES})
    file(STRINGS ${source} uses REGEX TUTTI_SOURCE_DIR LIMIT_COUNT 1)
    if(uses)
      set_property(SOURCE ${source} APPEND PROPERTY COMPILE_DEFINITIONS TUTTI_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
    endif()
  endforeach()
  add_test(NAME ${room} COMMAND ${room}_test)
endfunction()

# SPDX-License-Identifier: Apache-2.0
# Run with -P at build time: writes OUTPUT from TEMPLATE when the version changed, so that an unchanged
# tree compiles and links nothing. The date is the commit's, or SOURCE_DATE_EPOCH: same source, same
# bytes.
set(TUTTI_VERSION "0.0.0-dev")
set(TUTTI_COMMIT "")
set(TUTTI_DATE "")
set(epoch "$ENV{SOURCE_DATE_EPOCH}")
find_program(GIT git)
if(GIT)
  execute_process(COMMAND ${GIT} -C ${SOURCE_DIR} describe --tags --always --dirty --match "v*"
                  OUTPUT_VARIABLE described OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
  if(NOT failed)
    set(TUTTI_VERSION ${described})
    if(NOT described MATCHES "^v")
      set(TUTTI_VERSION "0.0.0-dev-g${described}")
    endif()
    execute_process(COMMAND ${GIT} -C ${SOURCE_DIR} rev-parse HEAD
                    OUTPUT_VARIABLE TUTTI_COMMIT OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    if(epoch STREQUAL "")
      execute_process(COMMAND ${GIT} -C ${SOURCE_DIR} log -1 --format=%ct
                      OUTPUT_VARIABLE epoch OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    endif()
  endif()
endif()
if(NOT "$ENV{TUTTI_VERSION}" STREQUAL "")
  set(TUTTI_VERSION "$ENV{TUTTI_VERSION}")
endif()
if(NOT epoch STREQUAL "")
  set(ENV{SOURCE_DATE_EPOCH} ${epoch})
  string(TIMESTAMP TUTTI_DATE "%Y-%m-%dT%H:%M:%SZ" UTC)
endif()
configure_file(${TEMPLATE} ${OUTPUT} @ONLY)

# Patches of source trees at configure time.
#
#   include(GraphcheckSource)
#   graphcheck_check_source(<tree> [ONLY <patch>...])   stop unless every patch is there
#   graphcheck_apply_source(<tree> [ONLY <patch>...] [STAMP <file>])   apply what is needed
#
# GRAPHCHECK_COMMAND is the command to run, `graphcheck` by default; a list, such as
# "python3;-m;graphcheck", does, too.

include_guard(GLOBAL)

function(_graphcheck_patch verb tree)
  if(NOT GRAPHCHECK_COMMAND)
    find_program(GRAPHCHECK_PROGRAM graphcheck)
    if(NOT GRAPHCHECK_PROGRAM)
      message(FATAL_ERROR "graphcheck is not on the PATH: install it, or set GRAPHCHECK_COMMAND.")
    endif()
    set(GRAPHCHECK_COMMAND "${GRAPHCHECK_PROGRAM}")
  endif()
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "STAMP" "ONLY")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "graphcheck: unknown arguments: ${arg_UNPARSED_ARGUMENTS}")
  endif()
  set(arguments patch apply --source "${tree}")
  if(verb STREQUAL "check")
    list(APPEND arguments --check)
  endif()
  foreach(patch IN LISTS arg_ONLY)
    list(APPEND arguments --only "${patch}")
  endforeach()
  if(arg_STAMP)
    list(APPEND arguments --stamp "${arg_STAMP}")
  endif()
  execute_process(
    COMMAND ${GRAPHCHECK_COMMAND} ${arguments}
    RESULT_VARIABLE result
    OUTPUT_VARIABLE told
    ERROR_VARIABLE told)
  string(STRIP "${told}" told)
  if(NOT result STREQUAL "0")
    message(FATAL_ERROR "graphcheck: the source tree ${tree} is not as it should be:\n${told}")
  endif()
  string(REGEX MATCH "[^\n]*$" last "${told}")
  message(STATUS "graphcheck: ${last}")
endfunction()

function(graphcheck_check_source tree)
  _graphcheck_patch(check "${tree}" ${ARGN})
endfunction()

function(graphcheck_apply_source tree)
  _graphcheck_patch(apply "${tree}" ${ARGN})
endfunction()

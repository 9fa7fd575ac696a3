# The library that `graphcheck patch build --output DIR` wrote, beside this file:
#
#   find_package(graphcheck_kernels REQUIRED PATHS DIR NO_DEFAULT_PATH)
#   target_link_libraries(app PRIVATE graphcheck::kernels)
#
# Nobody calls the kernels by name: they register themselves when the library is loaded. So the
# linker is told to keep it.

set(graphcheck_kernels_LIBRARY "${CMAKE_CURRENT_LIST_DIR}/libgraphcheck_kernels.so")
if(NOT EXISTS "${graphcheck_kernels_LIBRARY}")
  set(graphcheck_kernels_FOUND FALSE)
  set(graphcheck_kernels_NOT_FOUND_MESSAGE
      "there is no libgraphcheck_kernels.so beside it; `graphcheck patch build --output\
 ${CMAKE_CURRENT_LIST_DIR}` makes one")
  return()
endif()

if(NOT TARGET graphcheck::kernels)
  add_library(graphcheck::kernels INTERFACE IMPORTED)
  set_target_properties(
    graphcheck::kernels
    PROPERTIES
      INTERFACE_LINK_LIBRARIES
      "-Wl,--push-state,--no-as-needed;${graphcheck_kernels_LIBRARY};-Wl,--pop-state")
endif()

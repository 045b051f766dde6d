# godwit_judge_nvcc(SAID TROUBLE): sets the variable TROUBLE to why an nvcc that says SAID about its version cannot
# compile Godwit; to "" if it can. Asked before CMake tries the compiler: an older one fails there at the architectures,
# and with it the whole build.
function(godwit_judge_nvcc said trouble)
  set(oldest 13.0)
  set(found "of an unknown version")
  if(said MATCHES "release ([0-9]+\\.[0-9]+)")
    set(found "version ${CMAKE_MATCH_1}")
    if(CMAKE_MATCH_1 VERSION_GREATER_EQUAL oldest)
      set(${trouble} "" PARENT_SCOPE)
      return()
    endif()
  endif()
  set(${trouble} "nvcc is ${found}, and ${oldest} at least is needed; CUDACXX may name another one" PARENT_SCOPE)
endfunction()

# godwit_judge_architectures(LIST TROUBLE): sets TROUBLE to why Godwit cannot be built for these architectures; to "" if
# it can. Code that the driver compiles (PTX) belongs to another class of devices than machine code of the same name,
# and a program knows the names alone (__CUDA_ARCH_LIST__): each that has PTX has to have machine code, too.
function(godwit_judge_architectures list trouble)
  set(${trouble} "" PARENT_SCOPE)
  foreach(one IN LISTS list)
    string(REGEX REPLACE "-virtual$" "" name "${one}")
    if(NOT name STREQUAL one AND NOT name IN_LIST list AND NOT "${name}-real" IN_LIST list)
      set(${trouble} "${one} has no machine code; write ${name}, which has both" PARENT_SCOPE)
    endif()
  endforeach()
endfunction()

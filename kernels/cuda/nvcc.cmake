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

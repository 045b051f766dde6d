# Says which commit a tree is of: `cmake -DSOURCE=TREE [-DTO=FILE] -P commit.cmake`. The answer is the first 12 digits of the
# commit, with "-dirty" behind them where tracked files differ from it, or "unknown". It goes to FILE, filled up with blanks
# to the 64 bytes of the section in tools/godwit/text/commit.c, or to standard output. FILE is left alone where it says the
# same already, so that nothing is linked anew.
#
# A tree of git is asked itself. In a tree without git, tools/commit.txt says it: `git archive` and ./build.sh write it there.
set(commit unknown)
if(EXISTS ${SOURCE}/.git) # no other tree of git that this one happens to lie in
  # The owner of a tree may be another user than the one who builds, as root does. Nothing is written into the tree's index,
  # which other processes may hold.
  set(git git --no-optional-locks -C ${SOURCE} -c safe.directory=* -c core.fsmonitor=false)
  execute_process(COMMAND ${git} rev-parse --verify --short=12 HEAD OUTPUT_VARIABLE head RESULT_VARIABLE failed
    OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(NOT failed)
    execute_process(COMMAND ${git} status --porcelain --untracked-files=no OUTPUT_VARIABLE changes RESULT_VARIABLE failed
      ERROR_QUIET)
  endif()
  if(NOT failed)
    set(commit ${head})
    if(changes)
      string(APPEND commit -dirty)
    endif()
  endif()
elseif(EXISTS ${SOURCE}/tools/commit.txt)
  file(STRINGS ${SOURCE}/tools/commit.txt written LIMIT_COUNT 1)
  if(written MATCHES "^([0-9a-f]+)(-dirty)?$") # not the placeholder of git archive
    string(SUBSTRING ${CMAKE_MATCH_1} 0 12 commit)
    string(APPEND commit "${CMAKE_MATCH_2}")
  endif()
endif()
if(NOT TO)
  execute_process(COMMAND ${CMAKE_COMMAND} -E echo ${commit})
  return()
endif()
string(LENGTH ${commit} length)
math(EXPR blanks "64 - ${length}")
string(REPEAT " " ${blanks} filler)
set(before "")
if(EXISTS ${TO})
  file(READ ${TO} before)
endif()
if(NOT before STREQUAL "${commit}${filler}")
  file(WRITE ${TO} "${commit}${filler}")
endif()

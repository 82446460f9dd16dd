# Tests that need an RDMA device. A batch of cases shares one boot of a virtual machine: that boot
# is a separate test, soft-roce.boot_<batch>, and the fixture of the tests of its cases.

# Returns the tier of a batch or machine. The gate runs `core` on most days, and the other tiers in turn.
function(cordma_soft_roce_tier out name)
  if(name STREQUAL "core")
    set(tier core)
  elseif(name MATCHES "^(verbs|asan)$")
    set(tier rdma-verbs)
  elseif(name MATCHES "^(samples|rdma|cp_.*)$")
    set(tier rdma-programs)
  else()
    set(tier rdma-machines)
  endif()
  set(${out} ${tier} PARENT_SCOPE)
endfunction()

# cordma_soft_roce_case(batch name [SECONDS s] COMMAND ...): the test soft-roce.<name>. The command's words
# may hold generator expressions, e.g. $<TARGET_FILE:program>; the current folder is the build's.
function(cordma_soft_roce_case batch name)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "SECONDS" "COMMAND")
  if(NOT arg_SECONDS)
    set(arg_SECONDS 60)
  endif()
  set(line "check '${name}' ${arg_SECONDS}")
  foreach(word IN LISTS arg_COMMAND)
    string(REPLACE "'" "'\\''" word "${word}")
    string(APPEND line " '${word}'")
  endforeach()
  set_property(GLOBAL APPEND_STRING PROPERTY cordma_soft_roce_${batch} "${line}\n")
  cordma_soft_roce_tier(tier ${batch})
  cordma_test(soft-roce.${name} TIER ${tier} LABELS soft-roce
    COMMAND bash "${PROJECT_SOURCE_DIR}/tests/soft-roce/cases.sh" result
      "${PROJECT_BINARY_DIR}/soft-roce/${batch}" "${name}")
  set_tests_properties(soft-roce.${name} PROPERTIES FIXTURES_REQUIRED soft_roce_${batch})
endfunction()

# cordma_soft_roce_batch(batch [SECONDS s]): call it after its cases; all of them together take at
# most s seconds.
function(cordma_soft_roce_batch batch)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "SECONDS" "")
  if(NOT arg_SECONDS)
    set(arg_SECONDS 300)
  endif()
  get_property(lines GLOBAL PROPERTY cordma_soft_roce_${batch})
  set(cases "${PROJECT_BINARY_DIR}/soft-roce/${batch}.cases")
  file(GENERATE OUTPUT "${cases}" CONTENT "${lines}")
  cordma_soft_roce_machine(boot_${batch} SECONDS ${arg_SECONDS}
    COMMAND bash "${PROJECT_SOURCE_DIR}/tests/soft-roce/cases.sh" run "${cases}"
      "${PROJECT_BINARY_DIR}/soft-roce/${batch}" --offline --timeout ${arg_SECONDS})
  set_tests_properties(soft-roce.boot_${batch} PROPERTIES FIXTURES_SETUP soft_roce_${batch})
endfunction()

# cordma_soft_roce_machine(name SECONDS s [WAITS] COMMAND ...): a test that boots machines itself,
# and takes s seconds besides the boot. It uses two processors: programs that poll on both sides are
# many times slower with less than one each. With WAITS it uses one: it mostly waits for lost
# packets. These tests take longest, so they are started first.
function(cordma_soft_roce_machine name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "WAITS" "SECONDS" "COMMAND")
  set(processors 2)
  if(arg_WAITS)
    set(processors 1)
  endif()
  math(EXPR limit "2 * ${arg_SECONDS} + 600")  # machine.sh may start it once more
  string(REGEX REPLACE "^boot_" "" batch "${name}")
  cordma_soft_roce_tier(tier ${batch})
  cordma_test(soft-roce.${name} TIMEOUT ${limit} TIER ${tier} LABELS soft-roce
    COMMAND bash "${PROJECT_SOURCE_DIR}/tests/soft-roce/machine.sh" ${name}
      "${PROJECT_BINARY_DIR}/soft-roce/started-again" ${arg_COMMAND})
  set_tests_properties(soft-roce.${name} PROPERTIES COST ${arg_SECONDS} PROCESSORS ${processors})
endfunction()

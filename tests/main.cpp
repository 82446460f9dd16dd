#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>
#include <support/applies.hpp>

int main(int argc, char** argv) { return cordma::test::run_cases(argc, argv); }

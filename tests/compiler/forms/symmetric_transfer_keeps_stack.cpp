#include "form.hpp"

// Awaiting a child that completes without suspending is a tail call, also unoptimised (GCC needs
// -foptimize-sibling-calls for that).
task<int> leaf(stack_probe& probe, int i) {
  probe.touch();
  co_return i;
}
task<void> root() {
  stack_probe probe;
  long sum = 0;
  for (int i = 0; i < 1000; ++i) sum += co_await leaf(probe, i);
  if (sum == 0 || probe.grown() > 1000) ++T::bad;
}

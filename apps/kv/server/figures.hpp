// Groups of metrics for Prometheus, besides those that server writes about itself.
#pragma once

#include "../journal/journal.hpp"
#include "metrics_page.hpp"
#include "native_front.hpp"

namespace kv {

void write_journal(metrics_text& out, const journal_info& j);
void write_native(metrics_text& out, const native_front::figures& f);

}  // namespace kv

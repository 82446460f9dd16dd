// Groups of figures for Prometheus, beside those that server writes of itself.
#pragma once

#include "../journal/journal.hpp"
#include "metrics_page.hpp"
#include "native_front.hpp"

namespace kv {

void write_journal(metrics_text& out, const journal_info& j);
void write_native(metrics_text& out, const native_front::figures& f);

}  // namespace kv

#pragma once

#include <string_view>

namespace addnorm::cli {

/// Whether a Host header, "localhost:8080", names this machine by a name that no DNS server gives:
/// localhost, 127.0.0.1 or [::1], with any port or none. Another site's name may resolve to this
/// machine (DNS rebinding), and its pages would then read what is served here.
bool names_this_machine(std::string_view host);

/// Whether an Origin header, "http://localhost:8080", is that of a page from this machine.
bool is_from_this_machine(std::string_view origin);

}  // namespace addnorm::cli

#pragma once

#include <string_view>

namespace addnorm::cli {

/// Returns whether a Host header, "localhost:8080", names this machine by a name that no DNS server
/// can give: localhost, 127.0.0.1 or [::1], with or without a port. Another site's name may resolve
/// to this machine (DNS rebinding), and its pages could then read the server's content.
bool names_this_machine(std::string_view host);

/// Returns whether an Origin header, "http://localhost:8080", is that of a page from this machine.
bool is_from_this_machine(std::string_view origin);

}  // namespace addnorm::cli

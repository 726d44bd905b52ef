// A question to a server that runs, from outside, for those who watch over it.
#pragma once

#include <chrono>
#include <string>

namespace longformer::server {

/// Asks GET /health at the first address of a hostname that accepts a connection. Returns that
/// address once the answer is 200. Throws Error if no server answers so within the limit.
std::string ask_health(const std::string& hostname, int port, std::chrono::milliseconds limit);

}  // namespace longformer::server

// The page at /, made part of the program.
#pragma once

#include <string>
#include <string_view>

namespace longformer::server {

extern const std::string_view kPage;
/// SHA-256 of its script and of its style, as hexadecimal digits.
extern const std::string_view kPageScriptHash, kPageStyleHash;

/// The policy by which a browser runs this script and style, and loads nothing from elsewhere.
std::string page_policy();

}  // namespace longformer::server

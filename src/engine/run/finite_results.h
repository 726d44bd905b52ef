// Numbers of a model are a result only when all of them are finite.
#pragma once

#include <span>
#include <string>

namespace longformer {

/// Fault of numbers of a model, named by `what`; empty when all are finite.
std::string why_not_finite(std::span<const float> values, const char* what);

/// Throws Error with that, behind the name of the document where it has one.
void require_finite(std::span<const float> values, const char* what, const std::string& document);

}  // namespace longformer

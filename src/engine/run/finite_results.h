// What a model computed is a result only when all of it is finite.
#pragma once

#include <span>
#include <string>

namespace longformer {

/// What is wrong with numbers of a model, `what` they are; empty when all are finite.
std::string why_not_finite(std::span<const float> values, const char* what);

/// Throws Error with that, behind the name of the document where it has one.
void require_finite(std::span<const float> values, const char* what, const std::string& document);

}  // namespace longformer

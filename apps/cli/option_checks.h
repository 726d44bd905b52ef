// Mistakes in a command line that no single option can see: values that are empty, and options that
// mean nothing beside others.
#pragma once

#include <CLI/App.hpp>
#include <string>
#include <vector>

#include "messages.h"

namespace longformer::cli {

/// Throws UsageError for an option of the verb, or a place, whose value is empty, but for those
/// where an empty text means something; and for a list between commas with an empty part.
void check_values(const CLI::App& verb, const std::vector<std::string>& arguments);

/// Throws UsageError for an option that contradicts another one; one that has no effect is noted.
void check_together(const CLI::App& verb, Messages& messages);

}  // namespace longformer::cli

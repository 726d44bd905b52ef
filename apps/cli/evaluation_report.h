// The result of an evaluation, as text and as JSON.
#pragma once

#include <string>
#include <vector>

#include "longformer/report.h"
#include "messages.h"

namespace longformer::cli {

/// Notes of a result or of data, with the option that would change one.
void tell(const std::vector<CountNote>& notes, Messages& messages);

/// Table of an evaluation for a person.
std::string table_of(const Evaluation& result);

}  // namespace longformer::cli

// A document with its mentions as one self-contained HTML page: a click on a mention lights its
// chain over the whole text.
#pragma once

#include <string>

#include "coreference/forms.h"

namespace longformer::cli {

/// The whole page.
std::string coreference_page(const ResolvedDocument& resolved);

}  // namespace longformer::cli

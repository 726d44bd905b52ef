// Models by their names on the Hub, fetched where the cache lacks them.
#pragma once

#include <string>

#include "bindings.h"
#include "longformer/hub.h"

namespace longformer {

/// fetched_model; a line on sys.stderr says before what is fetched. Called without the GIL.
std::string fetch_model(const std::string& name);
/// find_adapter, with a line like that of fetch_model. Called without the GIL.
std::string fetch_adapter(const std::string& name);
/// fetch_model for callers that hold the GIL.
std::string model_folder(const std::string& name);

void bind_hub(nb::module_& module);

}  // namespace longformer

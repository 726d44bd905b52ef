// Models by their names on the Hugging Face Hub, as far as the local cache has them.
#pragma once

#include <string>

namespace longformer {

/// The folder of a model: an existing folder as it is, else the snapshot of `org/name` or
/// `org/name@revision` (a branch, a tag or a commit; main by default) in the local cache of the
/// Hub. The cache is HF_HUB_CACHE, else HUGGINGFACE_HUB_CACHE, else hub in HF_HOME, else
/// huggingface/hub in XDG_CACHE_HOME or ~/.cache. Nothing is downloaded: throws Error with the
/// command that would fetch a model that is not there.
std::string find_model(const std::string& name);

}  // namespace longformer

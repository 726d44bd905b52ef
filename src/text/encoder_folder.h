// Place of the encoder in a folder of sentence-transformers.
#pragma once

#include <string>

namespace longformer::text {

/// The folder with config.json, weights and tokenizer: the one that the first module of
/// modules.json names, such as "0_Transformer" in folders of versions before 2, else the folder
/// itself. A modules.json that is malformed counts as none here: who needs the modules reports it.
std::string encoder_folder(const std::string& folder);

}  // namespace longformer::text

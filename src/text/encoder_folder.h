// Place of the encoder in a folder of sentence-transformers, and the files of its tokenizer.
#pragma once

#include <array>
#include <string>

namespace longformer::text {

/// The folder with config.json, weights and tokenizer: the one that the first module of
/// modules.json names, such as "0_Transformer" in folders of versions before 2, else the folder
/// itself. A modules.json that is malformed counts as none here: who needs the modules reports it.
std::string encoder_folder(const std::string& folder);

/// The files beside tokenizer.json and tokenizer_config.json that a tokenizer may be read from.
inline constexpr std::array kVocabularyFiles = {
    "vocab.txt",        "vocab.json", "merges.txt", "spm.model", "special_tokens_map.json",
    "added_tokens.json"};

}  // namespace longformer::text

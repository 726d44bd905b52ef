// Keys of the files of a folder beside config.json that nothing here reads and that may change
// results: each file is one line, as formats::unused_keys_note has it.
#pragma once

#include <string>
#include <vector>

namespace longformer {

/// Those of tokenizer_config.json; empty when all are read or harmless.
std::string unused_tokenizer_keys(const std::string& folder);

/// Those of the files of sentence-transformers, for folders that read_sentence_modules() takes; and
/// that modules.json may be missing in the cache of the Hub.
std::vector<std::string> unused_sentence_keys(const std::string& folder);

}  // namespace longformer

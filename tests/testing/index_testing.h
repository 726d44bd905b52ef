// Passages that tests of indexes put in.
#pragma once

#include <string>
#include <vector>

#include "index/passage_store.h"

namespace longformer::index {

using Texts = std::vector<std::string>;

/// Columns of the vectors.
inline constexpr Index kWidth = 3;

/// Puts texts in as the passages of a document; the vectors count from `first`.
inline bool put(const PassageStore& store, const std::string& name, const Texts& texts,
                float first = 0) {
  std::vector<NewPassage> passages;
  std::vector<float> vectors;
  std::string whole;
  for (const std::string& text : texts) {
    const auto begin = static_cast<Index>(whole.size());
    passages.push_back({begin, begin + std::ssize(text), text});
    whole += text;
    for (Index i = 0; i < kWidth; ++i) vectors.push_back(first++);
  }
  return store.put({.name = name, .text = whole}, passages, {.dense = vectors});
}

}  // namespace longformer::index

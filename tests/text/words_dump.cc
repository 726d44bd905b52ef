// The words of a search index of each line of stdin, one line each: the form of every word behind
// the bytes that it stands for. What tests/text/search_words_sweep_test.py asks about all
// characters.
#include <cstdio>
#include <iostream>
#include <string>

#include "text/search_words.h"

int main(int count, char** arguments) {
  longformer::text::WordSplitter splitter(count > 1 ? arguments[1] : "none");
  std::string line;
  while (std::getline(std::cin, line)) {
    std::string words;
    splitter.split(line, [&](const longformer::text::SearchWord& word) {
      words += std::to_string(word.begin) + '-' + std::to_string(word.end) + '=' + word.stem + '\t';
    });
    std::puts(words.c_str());
  }
}

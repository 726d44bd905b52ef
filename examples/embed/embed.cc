// Says how close in meaning texts are to the first of them: embed MODEL TEXT TEXT…
#include <longformer/embedding.h>
#include <longformer/error.h>

#include <cstdio>
#include <numeric>

int main(int count, char** values) {
  if (count < 4) {
    std::fprintf(stderr, "usage: embed MODEL TEXT TEXT...\n");
    return 2;
  }
  try {
    const longformer::Embedder embedder = longformer::Embedder::load(values[1]);
    const std::vector<std::string> texts(values + 2, values + count);
    longformer::EmbedOptions options;
    options.normalize = true;
    const auto embeddings = embedder.embed(texts, options);
    const std::vector<float>& first = embeddings[0].values;
    for (std::size_t i = 1; i < texts.size(); ++i) {
      const std::vector<float>& other = embeddings[i].values;
      const float cosine = std::inner_product(first.begin(), first.end(), other.begin(), 0.0f);
      std::printf("%.3f  %s\n", cosine, texts[i].c_str());
    }
  } catch (const longformer::Error& error) {
    std::fprintf(stderr, "embed: %s\n", error.what());
    return 1;
  }
}

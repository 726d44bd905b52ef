// Families whose scores have terms of distances: mpnet, jina-embeddings-v2, which is a BERT by its
// model_type, and deberta-v2 (docs/spec/modern-encoders.md#distances).
#pragma once

#include "models/registry.h"

namespace longformer::models {

/// RoBERTa's traits become those of MPNet.
Family mpnet(EncoderTraits roberta);

/// BERT's traits become those of jina-embeddings-v2, with the gated feed-forward block or BERT's.
Family jina_v2(EncoderTraits bert, bool is_gated);

/// The masked-LM head is that of before, or that of `legacy` false.
Family deberta_v2(bool is_legacy);

}  // namespace longformer::models

#include "tasks/embedding/embedding_teacher.h"

#include <utility>
#include <vector>

#include "core/error.h"

namespace longformer {

engine::TrainingBatch TaughtSet::batch(std::span<const Index> examples,
                                       const engine::Epoch& epoch) const {
  engine::TrainingBatch batch = data_->batch(examples, epoch);
  std::vector<VectorTarget*> taught;
  std::vector<std::string> texts;
  for (DocumentTarget& document : batch.targets) {
    if (!document.embedding) continue;
    for (VectorTarget& vector : document.embedding->vectors) {
      if (vector.teacher_text.empty()) continue;
      taught.push_back(&vector);
      texts.push_back(std::move(vector.teacher_text));
    }
  }
  // A text may be too long for the teacher, for example a passage with a title.
  EmbedOptions options;
  options.too_long = TooLong::truncate;
  std::vector<Embedding> vectors = teacher_->embed(texts, options);
  for (std::size_t i = 0; i < taught.size(); ++i) taught[i]->teacher = std::move(vectors[i].values);
  return batch;
}

std::shared_ptr<const Embedder> load_teacher(const std::string& folder, Index width,
                                             const LoadOptions& options) {
  auto teacher = std::make_shared<const Embedder>(Embedder::load(folder, options));
  require(teacher->embedding_size() == width,
          "{}: expected a teacher with vectors of {} numbers, as the model makes, found {}", folder,
          width, teacher->embedding_size());
  return teacher;
}

}  // namespace longformer

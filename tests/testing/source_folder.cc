// The one source that knows where the tree lies, so that the compiler cache finds the others from
// any other checkout.
#include "fixtures.h"

namespace longformer {

std::filesystem::path source_folder() { return LONGFORMER_SOURCE_FOLDER; }

}  // namespace longformer

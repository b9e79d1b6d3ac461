/* Files of tensors of any kind but single safetensors files. */
#ifndef FAC_SRC_IO_ANY_FILE_H
#define FAC_SRC_IO_ANY_FILE_H

#include <facula/files.h>

/* Opens .npz files and those of torch.save, told by their content, and names that end in ".index.json". NULL for any other file,
   without an error, and with one on failure. */
fac_tensor_file *fac__tensor_file_open_any(const char *path);

#endif

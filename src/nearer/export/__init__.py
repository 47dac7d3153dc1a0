"""A trained encoder in other people's hands: ONNX, a folder with a model card, the hub."""

from nearer.encoder.onnx_encoder import OnnxEncoder
from nearer.export.onnx import OnnxExport, export_onnx
from nearer.export.push import HubError, export_folder, prepare_upload, push
from nearer.export.source import Source, load_source

__all__ = [
    "HubError",
    "OnnxEncoder",
    "OnnxExport",
    "Source",
    "export_folder",
    "export_onnx",
    "load_source",
    "prepare_upload",
    "push",
]

import os,sys
src=open(os.path.join(os.path.dirname(os.path.abspath(__file__)),'facts_probe_1.py')).read().split("# contexts")[0]
exec(src)
# pools
pool=vp(); rec('defpool',cu.cuDeviceGetDefaultMemPool(C.byref(pool),d))
def pa(i):
    x=u64(); cu.cuMemPoolGetAttribute(pool,i,C.byref(x)); return x.value
def pools(): return dict(thr=pa(4),res=pa(5),resH=pa(6),used=pa(7),usedH=pa(8))
st=vp(); cu.cuStreamCreate(C.byref(st),1)
for s in [1,1*M,2*M,33*M,100*M]:
    p=u64(); delta('async_%d'%s,lambda:cu.cuMemAllocAsync(C.byref(p),sz(s),st)); rec('  pool',pools(),hex(p.value))
    delta('  sync',lambda:cu.cuStreamSynchronize(st)); delta('  freeasync',lambda:cu.cuMemFreeAsync(p,st)); rec('  pool',pools()); delta('  sync2',lambda:cu.cuStreamSynchronize(st)); rec('  pool',pools())
thr=u64(0xffffffffffffffff); rec('setthr',cu.cuMemPoolSetAttribute(pool,4,C.byref(thr)))
ps=[]
for i in range(6):
    p=u64(); cu.cuMemAllocAsync(C.byref(p),sz(40*M),st); ps.append(p); rec('  pool6',pools())
for p in ps: cu.cuMemFreeAsync(p,st)
cu.cuStreamSynchronize(st); rec('  held',pools()); delta('trim',lambda:cu.cuMemPoolTrimTo(pool,sz(50*M))); rec('  trimmed',pools()); delta('trim0',lambda:cu.cuMemPoolTrimTo(pool,sz(0))); rec(' trimmed0',pools())
p=u64(); cu.cuMemAllocAsync(C.byref(p),sz(64*M),st); rec('memfree_of_async',cu.cuMemFree_v2(p),pools()); cu.cuMemPoolTrimTo(pool,sz(0))
rec('async_huge',cu.cuMemAllocAsync(C.byref(p),sz(1<<45),st)); 
class Loc(C.Structure): _fields_=[('type',C.c_int),('id',C.c_int)]
class PP(C.Structure): _fields_=[('allocType',C.c_int),('handleTypes',C.c_int),('loc',Loc),('win',vp),('max',sz),('usage',C.c_ushort),('res',C.c_ubyte*54)]
pp=PP(); pp.allocType=1; pp.handleTypes=0; pp.loc.type=1; pp.loc.id=0
np=vp(); delta('poolcreate',lambda:cu.cuMemPoolCreate(C.byref(np),C.byref(pp)))
p=u64(); delta('frompool_10M',lambda:cu.cuMemAllocFromPoolAsync(C.byref(p),sz(10*M),np,st)); delta('pooldestroy_live',lambda:cu.cuMemPoolDestroy(np)); delta('  free',lambda:(cu.cuMemFreeAsync(p,st),cu.cuStreamSynchronize(st)))
pp.max=64*M; np=vp(); rec('poolcreate_max',cu.cuMemPoolCreate(C.byref(np),C.byref(pp))); rec('frompool_over_max',cu.cuMemAllocFromPoolAsync(C.byref(p),sz(100*M),np,st)); cu.cuMemPoolDestroy(np)
# vmm
class AF(C.Structure): _fields_=[('comp',C.c_ubyte),('rdma',C.c_ubyte),('usage',C.c_ushort),('res',C.c_ubyte*4)]
class AP(C.Structure): _fields_=[('type',C.c_int),('handle',C.c_int),('loc',Loc),('win',vp),('fl',AF)]
ap=AP(); ap.type=1; ap.handle=1; ap.loc.type=1; ap.loc.id=0
hd=u64(); delta('vmm_create_64M',lambda:cu.cuMemCreate(C.byref(hd),sz(64*M),C.byref(ap),u64(0)))
va=u64(); delta('vmm_reserve',lambda:cu.cuMemAddressReserve(C.byref(va),sz(64*M),sz(0),u64(0),u64(0))); delta('vmm_map',lambda:cu.cuMemMap(va,sz(64*M),sz(0),hd,u64(0)))
class AD(C.Structure): _fields_=[('loc',Loc),('fl',C.c_int)]
ad=AD(); ad.loc.type=1; ad.loc.id=0; ad.fl=3
delta('vmm_access',lambda:cu.cuMemSetAccess(va,sz(64*M),C.byref(ad),sz(1)))
delta('vmm_release_mapped',lambda:cu.cuMemRelease(hd)); rec('vmm_release_twice',cu.cuMemRelease(hd))
h2=u64(); rec('vmm_retain',cu.cuMemRetainAllocationHandle(C.byref(h2),vp(va.value)),hex(h2.value),hex(hd.value))
delta('vmm_unmap',lambda:cu.cuMemUnmap(va,sz(64*M))); delta('vmm_release2',lambda:cu.cuMemRelease(h2)); rec('vmm_addrfree',cu.cuMemAddressFree(va,sz(64*M)))
rec('vmm_create_odd',cu.cuMemCreate(C.byref(hd),sz(1*M),C.byref(ap),u64(0)))
rec('vmm_free_va',None)
# arrays
class A2(C.Structure): _fields_=[('w',sz),('h',sz),('fmt',C.c_int),('ch',C.c_uint)]
class A3(C.Structure): _fields_=[('w',sz),('h',sz),('d',sz),('fmt',C.c_int),('ch',C.c_uint),('fl',C.c_uint)]
class MR(C.Structure): _fields_=[('size',sz),('align',sz),('res',C.c_uint*4)]
for w,hh,ch in [(16,16,1),(1024,1024,4),(1000,0,1),(4097,33,2)]:
    a2=A2(w,hh,0x20,ch); arr=vp(); delta('array_%d_%d_%d'%(w,hh,ch),lambda:cu.cuArrayCreate_v2(C.byref(arr),C.byref(a2))); mr=MR(); rec('  req',cu.cuArrayGetMemoryRequirements(C.byref(mr),arr,d),mr.size,mr.align); delta('  destroy',lambda:cu.cuArrayDestroy(arr))
for w,hh,dd in [(256,256,256),(100,100,10)]:
    a3=A3(w,hh,dd,0x20,1,0); arr=vp(); delta('array3_%d'%w,lambda:cu.cuArray3DCreate_v2(C.byref(arr),C.byref(a3))); cu.cuArrayDestroy(arr)
    ma=vp(); delta('mip_%d'%w,lambda:cu.cuMipmappedArrayCreate(C.byref(ma),C.byref(a3),5)); mr=MR(); rec('  mipreq',cu.cuMipmappedArrayGetMemoryRequirements(C.byref(mr),ma,d),mr.size); cu.cuMipmappedArrayDestroy(ma)
# graph memory
g=vp(); cu.cuGraphCreate(C.byref(g),0)
class MAP(C.Structure): _fields_=[('pp',PP),('acc',vp),('n',sz),('bytes',sz),('dptr',u64)]
mp=MAP(); mp.pp.allocType=1; mp.pp.loc.type=1; mp.pp.loc.id=0; mp.bytes=256*M
nd=vp(); delta('graph_addalloc',lambda:cu.cuGraphAddMemAllocNode(C.byref(nd),g,None,sz(0),C.byref(mp))); rec('  dptr',hex(mp.dptr))
def ga():
    o=[]
    for i in range(4):
        x=u64(); cu.cuDeviceGetGraphMemAttribute(d,i,C.byref(x)); o.append(x.value)
    return o
rec('  gattr',ga())
nf=vp(); dep=(vp*1)(nd); delta('graph_addfree',lambda:cu.cuGraphAddMemFreeNode(C.byref(nf),g,dep,sz(1),u64(mp.dptr)))
ge=vp(); delta('graph_inst',lambda:cu.cuGraphInstantiateWithFlags(C.byref(ge),g,u64(0))); rec('  gattr',ga())
delta('graph_launch',lambda:(cu.cuGraphLaunch(ge,st),cu.cuStreamSynchronize(st))); rec('  gattr',ga())
delta('graph_launch2',lambda:(cu.cuGraphLaunch(ge,st),cu.cuStreamSynchronize(st)))
delta('graph_trim_live',lambda:cu.cuDeviceGraphMemTrim(d)); rec('  gattr',ga())
delta('graph_execdestroy',lambda:cu.cuGraphExecDestroy(ge)); rec('  gattr',ga()); delta('graph_trim',lambda:cu.cuDeviceGraphMemTrim(d)); rec('  gattr',ga()); cu.cuGraphDestroy(g)
# graph without free node
g=vp(); cu.cuGraphCreate(C.byref(g),0); mp.bytes=100*M; cu.cuGraphAddMemAllocNode(C.byref(nd),g,None,sz(0),C.byref(mp)); ge=vp(); rec('g2inst',cu.cuGraphInstantiateWithFlags(C.byref(ge),g,u64(0)))
delta('g2upload',lambda:(cu.cuGraphUpload(ge,st),cu.cuStreamSynchronize(st))); rec(' ga',ga())
delta('g2launch',lambda:(cu.cuGraphLaunch(ge,st),cu.cuStreamSynchronize(st))); rec(' ga',ga()); rec('g2launch_again',cu.cuGraphLaunch(ge,st)); delta('g2free',lambda:(cu.cuMemFreeAsync(u64(mp.dptr),st),cu.cuStreamSynchronize(st))); rec(' ga',ga()); cu.cuGraphExecDestroy(ge); delta('g2trim',lambda:cu.cuDeviceGraphMemTrim(d)); rec(' ga',ga())
# capture alloc
rec('begincap',cu.cuStreamBeginCapture_v2(st,0)); p=u64(); delta('cap_alloc',lambda:cu.cuMemAllocAsync(C.byref(p),sz(50*M),st)); rec('cap_memalloc',cu.cuMemAlloc_v2(C.byref(u64()),sz(1*M))); 
cg=vp(); rec('endcap',cu.cuStreamEndCapture(st,C.byref(cg)))
rec('begincap2',cu.cuStreamBeginCapture_v2(st,2)); q=u64(); rec('relaxed_memalloc',cu.cuMemAlloc_v2(C.byref(q),sz(1*M))); rec('relaxed_pool_attr',pools()); rec('relaxed_info',free()); rec('endcap2',cu.cuStreamEndCapture(st,C.byref(cg)))
rec('begincap3',cu.cuStreamBeginCapture_v2(st,0)); rec('global_pool_attr',pools()); rec('global_info',free()); x=sz();rec('global_getlimit',cu.cuCtxGetLimit(C.byref(x),2)); ga(); rec('global_graphattr',ga()); s2=vp(); status=C.c_int(); rec('iscap',cu.cuStreamIsCapturing(st,C.byref(status)),status.value); rec('endcap3',cu.cuStreamEndCapture(st,C.byref(cg)))
# ipc
p=u64(); cu.cuMemAlloc_v2(C.byref(p),sz(64*M)); hb=(C.c_ubyte*64)(); rec('ipc_get',cu.cuIpcGetMemHandle(hb,p)); p2=u64(); cu.cuMemAlloc_v2(C.byref(p2),sz(1000)); hb2=(C.c_ubyte*64)(); rec('ipc_get_small',cu.cuIpcGetMemHandle(hb2,p2)); rec('ipc_handle',bytes(hb).hex()); hb3=(C.c_ubyte*64)(); cu.cuIpcGetMemHandle(hb3,p); rec('ipc_same_handle_twice',bytes(hb)==bytes(hb3))
class IH(C.Structure): _fields_=[('b',C.c_ubyte*64)]
if os.environ.get('CHILD') is None:
    child=subprocess.Popen([sys.executable,'-c','''
import ctypes as C,sys,os,time
cu=C.CDLL('libcuda.so.1'); cu.cuInit(0); d=C.c_int(); cu.cuDeviceGet(C.byref(d),0); ctx=C.c_void_p(); cu.cuDevicePrimaryCtxRetain(C.byref(ctx),d); cu.cuCtxSetCurrent(ctx)
class IH(C.Structure): _fields_=[('b',C.c_ubyte*64)]
def free():
    f=C.c_size_t();t=C.c_size_t(); cu.cuMemGetInfo_v2(C.byref(f),C.byref(t)); return f.value
h=IH.from_buffer_copy(bytes.fromhex(sys.argv[1])); p=C.c_uint64(); a=free(); print('child open',cu.cuIpcOpenMemHandle_v2(C.byref(p),h,1),hex(p.value),'took',a-free(),flush=True)
input(); b=free(); print('child after parent free: free',b-a, 'copy', cu.cuMemsetD8_v2(p,1,C.c_size_t(1024)),cu.cuCtxSynchronize(),flush=True)
a=free(); print('close',cu.cuIpcCloseMemHandle(p),'gave',free()-a,flush=True)
'''  ,bytes(hb).hex()],stdin=subprocess.PIPE)
    time.sleep(3); a=free(); rec('parent_free_exported',cu.cuMemFree_v2(p),'gave',free()-a); child.stdin.write(b'\n'); child.stdin.flush(); child.wait(); rec('after_child',free()-a)
rec('primary_reset',None); delta('reset',lambda:0)
# fork
pid=os.fork()
if pid==0:
    x=C.c_int(); os.write(1,('fork child: init %d count %d alloc %d getinfo %d\n'%(cu.cuInit(0),cu.cuDeviceGetCount(C.byref(x)),cu.cuMemAlloc_v2(C.byref(u64()),sz(100)),cu.cuMemGetInfo_v2(C.byref(sz()),C.byref(sz())))).encode()); os._exit(0)
os.waitpid(pid,0)
# export table
class G(C.Structure): _fields_=[('b',C.c_ubyte*16)]
t=vp(); rec('export_unknown',cu.cuGetExportTable(C.byref(t),C.byref(G())),t.value)
# proc address
fp=vp(); stt=C.c_int()
for nm,ver,fl in [(b'cuMemAlloc',12000,0),(b'cuMemAlloc',2000,0),(b'cuNope',12000,0),(b'cuMemAllocAsync',12000,2),(b'cuMemAlloc_v2',12000,0),(b'cuCtxCreate',13000,0),(b'cuCtxCreate',11040,0),(b'cuCtxCreate',12000,0),(b'cuLaunchKernelEx',11000,0),(b'',12000,0),(b'cuGetProcAddress',11030,0),(b'cuGetProcAddress',12000,0)]:
    fp=vp(); rec('gpa_%s_%d_%d'%(nm.decode(),ver,fl),cu.cuGetProcAddress_v2(nm,C.byref(fp),ver,u64(fl),C.byref(stt)),stt.value,bool(fp.value))
json.dump(R,open(os.environ.get('OUT','/tmp')+'/facts2.json','w'),indent=1,default=str)
